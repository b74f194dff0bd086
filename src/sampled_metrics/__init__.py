"""Ranking metrics under sampling: metric M, protocol P, estimator M-hat."""
