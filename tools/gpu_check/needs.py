"""What parts take: seconds on one H200 beside others, for the order; GPU memory at most, for their company."""

# Of docs/measurements/gpu-check-h200.md, at 0bf3071.
SECONDS = {
    "racecheck sampling": 40, "racecheck moe": 36, "racecheck attention": 35, "racecheck gemm": 35,
    "attention_plain_gpu_test": 36, "attention_gpu_test": 34, "moe_gpu_test": 20,
    "logits qwen3_moe": 30, "logits llama": 29, "logits qwen3": 26,
    "memcheck gemm": 16, "end to end": 11, "racecheck hybrid_gemm": 10, "cuda_executor_gpu_test": 9,
    "sampling_gpu_test": 6, "openai client": 5,
}
OTHER_SECONDS = 4

# attention: frames beyond 8 GiB; cuda_chain: 4 links of 1 GiB; logits: a model in f32 and bf16, twice.
GPU_GIB = {
    "attention_gpu_test": 24, "attention_plain_gpu_test": 24, "logits llama": 16, "logits qwen3": 12,
    "logits qwen3_moe": 16, "cuda_executor_gpu_test": 10, "cuda_forward_gpu_test": 6,
    "cuda_chain_gpu_test": 8, "end to end": 8,
}
OTHER_GPU_GIB = 4
