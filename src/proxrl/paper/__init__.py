"""The paper's 66 checkable claims (data/paper_claims.csv) and how each is checked.

planning: the theorems on random MDPs (`proxrl plan --theory`); training: all that run folders
can show (`proxrl report`), by the kinds of checks in checks. Imports planning and the report's
statistics; nothing else imports it but the commands that print the claims.
"""
