"""The mechanisms of the lectures, each in its own file, none knowing any model's name.

One legend of shapes holds in every file and comment:

    B  batch                    H  heads (of queries)
    T  target or time           G  groups (heads of keys and values; G = H unless they are shared)
    S  source or memory         d  width of one head
    D  d_model                  V  vocabulary
"""
