"""From a decoded request to a generation under way: prompt, bounds, reservation, admission, dispatch."""
