"""Graphs of torch.compile whose nodes mdtensor computes by plans."""
