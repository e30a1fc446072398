"""What parts take: seconds on one H200 beside others, for the order; GPU memory at most, for their company."""

# Of a run at d5fec76 on 16 processors.
SECONDS = {
    "logits qwen3_moe": 120, "logits mixtral": 30,  # the latter not measured
    "racecheck moe": 118, "racecheck attention": 100,
    "racecheck sampling": 84, "racecheck gemm": 53, "attention_plain_gpu_test": 46,
    "attention_gpu_test": 34, "preload_gpu_test": 30, "preload_shared_gpu_test": 30,  # not measured
    "moe_gpu_test": 24, "cuda_executor_gpu_test": 19, "logits llama": 19, "logits qwen3": 16,
    "end to end": 9, "catalogue": 22, "racecheck hybrid_gemm": 7, "memcheck gemm": 7, "openai client": 6,
    "openai responses": 5,  # not measured
    "sampling_gpu_test": 5, "cuda_slice_gpu_test": 30, "cuda_slices_gpu_test": 30,  # these two and the next not measured
    "cuda_stream_gpu_test": 20, "attention_wide_gpu_test": 15,  # the latter not measured
}
OTHER_SECONDS = 4

# attention: frames beyond 8 GiB; cuda_chain: 4 links of 1 GiB; logits: a model in f32 and bf16, twice.
GPU_GIB = {
    "attention_gpu_test": 24, "attention_plain_gpu_test": 24, "logits llama": 16, "logits qwen3": 12,
    "logits qwen3_moe": 16, "logits mixtral": 16, "logits mistral": 16, "logits phi3": 16,
    "logits qwen2": 16, "logits gemma2": 16, "logits gemma3_text": 16, "cuda_executor_gpu_test": 10, "cuda_forward_gpu_test": 6,
    "cuda_chain_gpu_test": 8, "end to end": 8, "catalogue": 8,
}
OTHER_GPU_GIB = 4
