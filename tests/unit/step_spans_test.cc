#include "src/profile/step_spans.h"

#include <gtest/gtest.h>

#include "src/profile/steps.h"
#include "tests/unit/training_loop.h"

namespace ebt::profile {

// For messages.
std::ostream& operator<<(std::ostream& out, const TrueSpan& span) {
  return out << StepKindName(span.kind) << " of " << span.launches;
}
bool operator==(const TrueSpan& a, const TrueSpan& b) {
  return a.launches == b.launches && a.kind == b.kind;
}

namespace {

using Model = TrainingLoop::Model;

std::vector<TrueSpan> Found(const Profile& profile) {
  std::vector<TrueSpan> out;
  for (const StepSpan& span : FindStepSpans(profile)) {
    EXPECT_LT(span.begin, span.end);
    out.push_back({.launches = span.launches, .kind = span.kind});
  }
  return out;
}

void ExpectItsSpans(const TrainingLoop& loop) { EXPECT_EQ(Found(loop.profile), loop.spans); }

TEST(StepSpansTest, EqualStepsAreAllFoundTheFirstOneToo) {
  TrainingLoop loop;
  for (int i = 0; i < 5; ++i) loop.Step();
  ExpectItsSpans(loop);
}

TEST(StepSpansTest, MicroStepsAreNotTheStep) {
  TrainingLoop loop({.clips = true});
  for (int i = 0; i < 4; ++i) loop.Step(8, 4);
  ExpectItsSpans(loop);
}

TEST(StepSpansTest, AccumulationThatChangesItsNumberOfMicroSteps) {
  TrainingLoop loop;
  for (int micro_steps : {1, 2, 3, 4, 4, 2}) loop.Step(8, micro_steps);
  ExpectItsSpans(loop);
}

TEST(StepSpansTest, LengthsThatDifferFromStepToStep) {
  TrainingLoop loop;
  for (uint64_t length : {8, 5, 14, 7, 20, 6, 9, 13}) loop.Step(length);
  ExpectItsSpans(loop);
}

TEST(StepSpansTest, EvaluationEverySecondStepIsNoStep) {
  TrainingLoop loop;
  for (int i = 0; i < 7; ++i) {
    loop.Step();
    if (i % 2 == 1) loop.Evaluate(3);
  }
  ExpectItsSpans(loop);
}

TEST(StepSpansTest, EvaluationBeforeTheFirstStepAndBehindTheLastOne) {
  TrainingLoop loop;
  loop.Evaluate(2);
  for (int i = 0; i < 4; ++i) loop.Step();
  loop.Evaluate(2);
  ExpectItsSpans(loop);
}

TEST(StepSpansTest, LengthsAccumulationAndEvaluationTogether) {
  TrainingLoop loop({.clips = true, .scales = true});
  const uint64_t lengths[] = {8, 5, 14, 7, 20, 6};
  for (int i = 0; i < 6; ++i) {
    loop.Step(lengths[i], 3);
    if (i % 3 == 2) loop.Evaluate(2, lengths[i]);
  }
  ExpectItsSpans(loop);
}

TEST(StepSpansTest, CheckpointedLayersAreNoStep) {
  TrainingLoop loop({.layers = 12, .checkpoints = true});
  for (int i = 0; i < 4; ++i) loop.Step();
  ExpectItsSpans(loop);
}

TEST(StepSpansTest, StepsThatTheOptimizerSkipsAreSteps) {
  TrainingLoop loop({.scales = true});
  for (bool optimizes : {false, true, true, false, false, true, true}) {
    loop.Step(8, 1, optimizes);
  }
  ExpectItsSpans(loop);
}

TEST(StepSpansTest, SkippedStepsOfSeveralMicroSteps) {
  TrainingLoop loop({.scales = true});
  for (bool optimizes : {true, true, false, true}) loop.Step(8, 3, optimizes);
  ExpectItsSpans(loop);
}

TEST(StepSpansTest, WarmUpOfAnotherShape) {
  TrainingLoop loop;
  for (uint64_t length : {2, 4, 6, 8, 8, 8, 8}) loop.Step(length);
  ExpectItsSpans(loop);
}

TEST(StepSpansTest, TwoOptimizersBehindOneBackwardAreOneStep) {
  TrainingLoop loop;
  Model other = loop.MakeModel(3 << 20);
  for (int i = 0; i < 4; ++i) {
    loop.Begin(StepKind::kTraining);
    loop.FreeGradients(loop.model);
    loop.FreeGradients(other);
    loop.ForwardAndBackward(loop.model, 8);
    loop.ForwardAndBackward(other, 8);
    loop.Optimize(loop.model);
    loop.Optimize(other);
    loop.End();
  }
  ExpectItsSpans(loop);
}

TEST(StepSpansTest, TwoModelsThatTakeTurnsMakeOneStep) {
  TrainingLoop loop;
  Model other = loop.MakeModel(3 << 20);
  for (int i = 0; i < 5; ++i) {
    loop.Begin(StepKind::kTraining);
    for (Model* trained : {&loop.model, &other}) {
      loop.FreeGradients(*trained);
      loop.ForwardAndBackward(*trained, 8);
      loop.Optimize(*trained);
    }
    loop.End();
  }
  ExpectItsSpans(loop);
}

TEST(StepSpansTest, FiveStepsOfOneModelForOneOfTheOther) {
  TrainingLoop loop;
  Model other = loop.MakeModel(3 << 20);
  for (int i = 0; i < 4; ++i) {
    loop.Begin(StepKind::kTraining);
    for (int k = 0; k < 6; ++k) {
      Model& trained = k < 5 ? loop.model : other;
      loop.FreeGradients(trained);
      loop.ForwardAndBackward(trained, 8);
      loop.Optimize(trained);
    }
    loop.End();
  }
  ExpectItsSpans(loop);
}

TEST(StepSpansTest, OneModelTrainedBehindTheOtherDoesNotTakeTurns) {
  TrainingLoop loop;
  Model other = loop.MakeModel(3 << 20);
  for (int i = 0; i < 8; ++i) {
    Model& trained = i < 4 ? loop.model : other;
    loop.Begin(StepKind::kTraining);
    loop.FreeGradients(trained);
    loop.ForwardAndBackward(trained, 8);
    loop.Optimize(trained);
    loop.End();
  }
  ExpectItsSpans(loop);
}

TEST(StepSpansTest, CopiesOfTheNextBatchWithinAStep) {
  TrainingLoop loop;
  const uint32_t next = loop.Block(1 << 20, 50, Kind::kInput);
  for (int i = 0; i < 5; ++i) {
    loop.Begin(StepKind::kTraining);
    loop.FreeGradients(loop.model);
    loop.Copy(next);
    loop.ForwardAndBackward(loop.model, 8);
    loop.Copy(next);
    loop.Optimize(loop.model);
    loop.End();
  }
  ExpectItsSpans(loop);
}

TEST(StepSpansTest, StepsThatAreGraphs) {
  TrainingLoop loop;
  for (int i = 0; i < 6; ++i) {
    loop.Begin(StepKind::kPlain);
    loop.Launch(TrainingLoop::kFill, {});
    loop.Graph(1);  // forward and backward
    loop.Graph(2);  // the optimizer
    loop.End();
  }
  ExpectItsSpans(loop);
}

TEST(StepSpansTest, GraphsBehindAnEagerWarmUp) {
  TrainingLoop loop;
  for (int i = 0; i < 3; ++i) loop.Step();
  for (int i = 0; i < 6; ++i) {
    loop.Begin(StepKind::kPlain);
    loop.Graph(1);
    loop.End();
  }
  ExpectItsSpans(loop);
}

TEST(StepSpansTest, MarksWin) {
  TrainingLoop loop({.marks = true});
  for (int i = 0; i < 6; ++i) {
    loop.Begin(StepKind::kTraining);
    for (int k = 0; k < 2; ++k) {
      loop.FreeGradients(loop.model);
      loop.ForwardAndBackward(loop.model, 8);
      loop.Optimize(loop.model);
    }
    loop.End();
  }
  ExpectItsSpans(loop);
}

TEST(StepSpansTest, MarkedStepsKnowTheirKind) {
  TrainingLoop loop({.marks = true});
  for (int i = 0; i < 3; ++i) loop.Step();
  loop.Evaluate(2);
  loop.Step(8, 1, false);
  loop.Step();
  ExpectItsSpans(loop);
}

TEST(StepSpansTest, NamedKernelEndsTheStep) {
  // Two updates a step are one where an unnamed kernel of another function ends it.
  TrainingLoop loop;
  loop.profile.functions.push_back({TrainingLoop::kFunctions, "end_of_epoch"});
  loop.profile.metadata["step_kernel"] = "end_of";
  for (int i = 0; i < 4; ++i) {
    loop.Begin(StepKind::kTraining);
    for (int k = 0; k < 2; ++k) {
      loop.FreeGradients(loop.model);
      loop.ForwardAndBackward(loop.model, 8);
      loop.Optimize(loop.model);
    }
    loop.Launch(TrainingLoop::kFunctions, {});
    loop.End();
  }
  ExpectItsSpans(loop);
  const auto steady = FindSteps(loop.profile);
  ASSERT_TRUE(steady.has_value());
  EXPECT_EQ(steady->period, loop.spans.back().launches);
  EXPECT_EQ(steady->steps, 3u);  // the first one makes the optimizer's state
}

TEST(StepSpansTest, NamedKernelThatNeverRunsChangesNothing) {
  TrainingLoop loop;
  loop.profile.metadata["step_kernel"] = "no_such_kernel";
  for (int i = 0; i < 4; ++i) loop.Step();
  ExpectItsSpans(loop);
}

TEST(StepSpansTest, OneStepIsOneStep) {
  TrainingLoop loop;
  loop.Step();
  ExpectItsSpans(loop);
}

TEST(StepSpansTest, UnfinishedLastStepIsNone) {
  TrainingLoop loop;
  for (int i = 0; i < 3; ++i) loop.Step();
  loop.FreeGradients(loop.model);
  loop.ForwardAndBackward(loop.model, 8);
  ExpectItsSpans(loop);
}

TEST(StepSpansTest, InferenceAloneHasNoTraining) {
  TrainingLoop loop;
  for (int i = 0; i < 8; ++i) loop.Infer(loop.model, uint64_t(6 + i % 3));
  for (const TrueSpan& span : Found(loop.profile)) EXPECT_EQ(span.kind, StepKind::kPlain);
}

TEST(StepSpansTest, SetUpAloneHasNoStep) {
  TrainingLoop loop;
  for (int i = 0; i < 20; ++i) loop.MakeModel(uint64_t(1 + i) << 20);
  EXPECT_TRUE(Found(loop.profile).empty());
}

TEST(StepSpansTest, LayersThatRepeatAreNoSteps) {
  ProfileBuilder builder;
  uint32_t x = builder.Alloc(1 << 20, 1);
  for (int layer = 0; layer < 100; ++layer) {
    const uint32_t weight = builder.Alloc(4 << 20, 2);
    builder.Launch(0, {weight});
    const uint32_t y = builder.Alloc(1 << 20, 1);
    builder.Launch(1, {weight, x, y});
    builder.Launch(2, {y});
    x = y;
  }
  EXPECT_TRUE(Found(builder.profile).empty());
}

TEST(StepSpansTest, NothingIsNothing) { EXPECT_TRUE(Found(Profile()).empty()); }

}  // namespace
}  // namespace ebt::profile
