"""The ten corruptions of ImageNet-C-bar (Mintun et al. 2021) at any size: docs/specs/beyond.md, 9.

Lengths scale with n = √(H W), positions with H and W. Every random number comes from the order of draws that the
reference has, so that the legacy stream gives its values.
"""
