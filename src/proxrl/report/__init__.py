"""From run folders to figures, numbers and one page; never needs a live process (no torch here).

runs → protocol → series → study → statistics → findings, claims → figures, page
"""
