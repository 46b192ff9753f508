"""From run folders to figures, numbers and one page. Reads files only (no torch).

runs → protocol → series → study → statistics → findings, claims → figures, page
"""
