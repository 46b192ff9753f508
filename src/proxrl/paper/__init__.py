"""The paper's 66 checkable claims (data/paper_claims.csv) and how each is checked.

planning: the theorems on random MDPs (`proxrl plan --theory`); training: claims checked on run
folders (`proxrl report`), with verdict (how one is reached), scope (what a claim covers), settings,
performance, variants and distances (the checks). Imports planning and the report's
statistics, and is imported only by the commands that print the claims.
"""
