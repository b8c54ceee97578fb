"""The main job, shown: callers speak, workers are killed in the middle of turns, calls go on."""
