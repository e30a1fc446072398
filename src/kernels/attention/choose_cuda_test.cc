#include <gtest/gtest.h>

#include "kernels/attention/cuda_parts.h"

namespace causeway::kernels::attention::attention_choose_cuda_test {
namespace {

TEST(ChooseAttention, KernelsByHeads) {
  EXPECT_FALSE(choose_decode({3, 2, 64}, DecodeKernel::kBest).ok());
  EXPECT_EQ(*choose_decode({32, 32, 96}, DecodeKernel::kBest), DecodeKernel::kSplit);
  EXPECT_EQ(*choose_decode({8, 1, 96}, DecodeKernel::kBest), DecodeKernel::kSplit);
  EXPECT_EQ(*choose_decode({32, 32, 96}, DecodeKernel::kTensor), DecodeKernel::kTensor);
  EXPECT_EQ(*choose_decode({9, 1, 96}, DecodeKernel::kBest), DecodeKernel::kTensor);
  EXPECT_FALSE(choose_decode({9, 1, 96}, DecodeKernel::kSplit).ok()) << "nine heads on one";
  EXPECT_FALSE(choose_decode({4, 2, 80}, DecodeKernel::kSplit).ok());
  EXPECT_EQ(*choose_decode({4, 2, 80}, DecodeKernel::kBest), DecodeKernel::kTensor);
  EXPECT_EQ(*choose_decode({4, 2, 192}, DecodeKernel::kBest), DecodeKernel::kReference);
  EXPECT_FALSE(choose_decode({4, 2, 192}, DecodeKernel::kTensor).ok());
  EXPECT_EQ(*choose_decode({28, 4, 128}, DecodeKernel::kBest), DecodeKernel::kSplit);
  EXPECT_EQ(*choose_decode({16, 8, 256}, DecodeKernel::kBest), DecodeKernel::kSplit);
  EXPECT_EQ(*choose_decode({8, 1, 256}, DecodeKernel::kBest), DecodeKernel::kSplit);
  EXPECT_FALSE(choose_decode({4, 2, 96}, DecodeKernel::kFlashInfer).ok());
  const auto other = has_flashinfer() ? DecodeKernel::kFlashInfer : DecodeKernel::kReference;
  EXPECT_EQ(*choose_decode({9, 1, 256}, DecodeKernel::kBest), other) << "nine heads on one";
  EXPECT_EQ(*choose_decode({34, 2, 64}, DecodeKernel::kBest),
            has_flashinfer() ? DecodeKernel::kFlashInfer : DecodeKernel::kTensor);
  EXPECT_FALSE(choose_decode({9, 1, 256}, DecodeKernel::kSplit).ok());
  EXPECT_FALSE(choose_prefill({4, 2, 96}, PrefillKernel::kFlashInfer).ok());
  EXPECT_EQ(*choose_prefill({4, 2, 96}, PrefillKernel::kBest), PrefillKernel::kTensor);
  EXPECT_FALSE(choose_prefill({4, 2, 256}, PrefillKernel::kTensor).ok());
}

TEST(ChooseAttention, DecodeRowsArePreparedByTheSplitKernel) {
  EXPECT_TRUE(fuses_prepare({32, 8, 128}, 1));
  EXPECT_TRUE(fuses_prepare({32, 8, 128}, 300));
  EXPECT_FALSE(fuses_prepare({32, 8, 128}, 0));
  EXPECT_TRUE(fuses_prepare({4, 2, 96}, 1));
  EXPECT_FALSE(fuses_prepare({4, 2, 80}, 1));
  EXPECT_TRUE(fuses_prepare({8, 4, 256}, 1));
  EXPECT_FALSE(fuses_prepare({32, 2, 256}, 1));
}

TEST(ChooseAttention, ClustersOfSmallBatches) {
  using parts::choose_small_batch_cluster;
  EXPECT_EQ(choose_small_batch_cluster({32, 4, 128}, 1, 30, 15), 8);
  EXPECT_EQ(choose_small_batch_cluster({32, 4, 128}, 4, 30, 15), 4);
  EXPECT_EQ(choose_small_batch_cluster({32, 8, 128}, 4, 30, 15), 0);
  EXPECT_EQ(choose_small_batch_cluster({32, 1, 128}, 5, 30, 15), 0) << "too many sequences";
  EXPECT_EQ(choose_small_batch_cluster({32, 8, 128}, 1, 7, 3), 0) << "too few multiprocessors";
  EXPECT_EQ(choose_small_batch_cluster({32, 8, 96}, 1, 30, 15), 0);
  EXPECT_EQ(choose_small_batch_cluster({16, 8, 256}, 1, 30, 15), 0);
  EXPECT_EQ(choose_small_batch_cluster({34, 2, 64}, 1, 30, 15), 0) << "17 heads on one";
  EXPECT_EQ(choose_small_batch_cluster({32, 8, 128}, 0, 30, 15), 0);
}

TEST(ChooseAttention, AWindowIsWhatTheDeviceCanCount) {
  ParamsCuda params;
  EXPECT_EQ(parts::device_window(params), parts::kNoDeviceWindow);
  params.window = 4096;
  EXPECT_EQ(parts::device_window(params), 4096);
}

}  // namespace
}  // namespace causeway::kernels::attention::attention_choose_cuda_test
