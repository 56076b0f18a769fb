"""The layers of the lectures, independent of any model.

    attention.py   scaled dot-product attention, its heads, the fused path; that of RNN decoders
    masks.py       who may attend to whom: causal, padding
    positions.py   sinusoidal, learned, relative and rotary positions
    layers.py      token embedding, normalisation, feed-forward layer, dropout
    blocks.py      the Transformer block, and blocks in a stack
    cache.py       keys and values of the tokens already read (KV cache)
    windows.py     attention within windows of an image (Swin)
    patches.py     an image as a sequence: patches, convolutions, positions on a grid
    recurrent.py   RNN, LSTM and GRU
    pooling.py     one vector for a whole sequence
    loss.py        cross-entropy with label smoothing, negative sampling
    observe.py     listening to a layer, switching heads off, changing what passes
    lora.py        fine-tuning by low-rank updates
    linear.py      y = x Wᵀ + b, with oneDNN's kernel (`onednn.py`) where it is faster
    int8.py        linear layers with 8-bit weights (`int8_kernels.py` chooses the kernel)

All files and comments use one legend of shapes:

    B  batch                    H  heads (of queries)
    T  target or time           G  groups (heads of keys and values; G = H unless they are shared)
    S  source or memory         d  width of one head
    D  d_model                  V  vocabulary
"""
