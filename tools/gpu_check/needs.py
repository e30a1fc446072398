"""What parts take: seconds on one H200 beside others, for the order; GPU memory at most, for their company."""

# Of docs/measurements/gpu-check-h200.json, at cbcc226, on 16 processors.
SECONDS = {
    "racecheck attention": 95,  # a guess: it had not ended after 176 s, and has fewer cases since
    "racecheck sampling": 93, "racecheck moe": 79, "logits qwen3_moe": 76,
    "attention_plain_gpu_test": 45, "racecheck gemm": 41, "attention_gpu_test": 39,
    "cuda_executor_gpu_test": 28, "moe_gpu_test": 26, "logits llama": 20, "logits qwen3": 16,
    "preload_gpu_test": 30, "preload_shared_gpu_test": 30,  # not measured: they did not run
    "memcheck attention": 14, "end to end": 12, "gemm_gpu_test": 7, "racecheck hybrid_gemm": 7,
    "memcheck gemm": 7, "sampling_gpu_test": 5, "openai client": 5,
}
OTHER_SECONDS = 4

# attention: frames beyond 8 GiB; cuda_chain: 4 links of 1 GiB; logits: a model in f32 and bf16, twice.
GPU_GIB = {
    "attention_gpu_test": 24, "attention_plain_gpu_test": 24, "logits llama": 16, "logits qwen3": 12,
    "logits qwen3_moe": 16, "cuda_executor_gpu_test": 10, "cuda_forward_gpu_test": 6,
    "cuda_chain_gpu_test": 8, "end to end": 8,
}
OTHER_GPU_GIB = 4
