"""The layers of the lectures, one mechanism per file, independent of any model.

All files and comments use one legend of shapes:

    B  batch                    H  heads (of queries)
    T  target or time           G  groups (heads of keys and values; G = H unless they are shared)
    S  source or memory         d  width of one head
    D  d_model                  V  vocabulary
"""
