"""SemSegBench's own calls: `from gauntlet.semsegbench.evals import evaluate, load_model`."""
