"""The engine around TensorRT-LLM's LLM API; docs/engines-tensorrt-llm.md lists the mappings.

Sources of the facts about the library that the modules here rely on: tensorrt_llm/llmapi/{llm,llm_args,utils}.py,
tensorrt_llm/executor/{executor,base_worker,result,request,utils}.py, tensorrt_llm/{sampling_params,
disaggregated_params,_utils}.py of NVIDIA/TensorRT-LLM on GitHub, versions 1.1 to 1.3 (manifest.py has the names).
"""
