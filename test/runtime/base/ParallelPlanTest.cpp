//===- ParallelPlanTest.cpp
//-------------------------------------------------===//
//
// Against golden/: what mixle 0.8.2 returned and raised. Rows that pass Python
// objects of a wrong type have no counterpart where the type is int64_t; those
// that the JSON form of a plan can still express are tried through it.
//
//===----------------------------------------------------------------------===//

#include "mixle/ParallelPlan.h"
#include "runtime/base/Files.h"
#include "runtime/base/Json.h"

#include <cstdio>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace mixle::runtime;

static Json golden(const std::string &name) {
  auto text = readFile(std::string(MIXLE_GOLDEN_DIR) + "/" + name);
  EXPECT_TRUE(text) << text.status().message();
  return Json::parse(*text);
}

static ParallelPlan planOf(const Json &fields) {
  auto plan = ParallelPlan::parseJson(fields.dump(), "golden plan");
  EXPECT_TRUE(plan) << plan.status().message();
  return plan ? *plan : ParallelPlan();
}

static Json namesOf(const std::vector<ParallelAxis> &axes) {
  Json names = Json::array();
  for (ParallelAxis axis : axes)
    names.push_back(std::string(toString(axis)));
  return names;
}

TEST(ParallelPlan, GoldenPlans) {
  Json plans = golden("parallel_plan.json")["plans"];
  EXPECT_EQ(plans.size(), 9u);
  for (const Json &row : plans) {
    ParallelPlan plan = planOf(row["args"]);
    EXPECT_TRUE(plan.validate());
    EXPECT_EQ(plan.worldSize(), row["world_size"]);
    EXPECT_EQ(plan.dataParallelSize(), row["data_parallel_size"]);
    EXPECT_EQ(namesOf(plan.activeAxes()), row["active_axes"]);
    Json names = Json::array(), sizes = Json::array();
    for (auto [axis, size] : plan.mesh()) {
      names.push_back(std::string(toString(axis)));
      sizes.push_back(size);
    }
    EXPECT_EQ(Json::array({names, sizes}), row["mesh"]);
    EXPECT_EQ(plan.asJson(), row["as_dict"].dump()); // order of keys too
    for (const auto &[name, size] : row["args"].items()) {
      auto axis = parseParallelAxis(name);
      EXPECT_TRUE(!axis || plan.size(*axis) == size) << name;
    }
  }
}

TEST(ParallelPlan, GoldenErrors) {
  // Python source of the offending value to the JSON of the same value.
  const std::pair<const char *, const char *> json[] = {
      {"True", "true"}, {"None", "null"}, {"'2'", "\"2\""}};
  Json errors = golden("parallel_plan.json")["errors"];
  EXPECT_EQ(errors.size(), 8u);
  int validated = 0;
  for (const Json &row : errors) {
    std::string object;
    bool integers = true;
    ParallelPlan plan;
    for (const auto &[name, value] : row["args"].items()) {
      std::string text = value;
      for (auto [python, form] : json)
        if (text == python)
          text = form;
      object += (object.empty() ? "{\"" : ", \"") + name + "\": " + text;
      Json parsed = Json::parse(text);
      if (!parsed.is_number_integer()) {
        integers = false;
        continue;
      }
      int64_t number = parsed;
      if (name == "tp")
        plan.tp = number;
      else if (name == "ep")
        plan.ep = number;
      else if (name == "dp_replicate")
        plan.dpReplicate = number;
      else if (name == "microbatches")
        plan.microbatches = number;
      else
        FAIL() << name;
    }
    if (integers) {
      ++validated;
      Status status = plan.validate();
      ASSERT_FALSE(status);
      EXPECT_EQ(status.message(), row["message"]);
    }
    auto parsed = ParallelPlan::parseJson(object + "}", "plan.json");
    ASSERT_FALSE(parsed) << object;
    std::string message = parsed.status().message(), expected = row["message"];
    EXPECT_EQ(message.rfind("plan.json: ", 0), 0u) << message;
    EXPECT_EQ(message.substr(message.size() - expected.size()), expected);
  }
  EXPECT_EQ(validated, 4);
}

TEST(ParallelPlan, FieldsAreCheckedInOrder) {
  ParallelPlan plan;
  plan.dpShard = 0;
  plan.cp = -1;
  plan.gradientAccumulationSteps = 0;
  EXPECT_EQ(plan.validate().message(),
            "dp_shard must be an exact positive integer.");
  plan.dpShard = 1;
  EXPECT_EQ(plan.validate().message(), "cp must be an exact positive integer.");
  plan.cp = 1;
  EXPECT_EQ(plan.validate().message(),
            "gradient_accumulation_steps must be an exact positive integer.");
}

TEST(ParallelPlan, AWorldThatDoesNotFitIsRefused) {
  ParallelPlan plan;
  plan.dpReplicate = int64_t(1) << 40;
  plan.tp = int64_t(1) << 40;
  ASSERT_FALSE(plan.validate());
  EXPECT_NE(plan.validate().message().find("does not fit"), std::string::npos);
}

TEST(ParallelPlan, ParsesTexts) {
  auto plan = ParallelPlan::parseText("dp_replicate=2, tp = 4,microbatches=3");
  ASSERT_TRUE(plan) << plan.status().message();
  ParallelPlan expected;
  expected.dpReplicate = 2;
  expected.tp = 4;
  expected.microbatches = 3;
  EXPECT_EQ(*plan, expected);
  EXPECT_EQ(plan->asText(), "dp_replicate=2,tp=4,microbatches=3");
  EXPECT_EQ(*ParallelPlan::parseText(plan->asText()), expected);
  EXPECT_EQ(ParallelPlan().asText(), "dp_replicate=1");
  EXPECT_EQ(*ParallelPlan::parseText("dp_replicate=1"), ParallelPlan());
  EXPECT_TRUE(ParallelPlan::parseText("tp=2,world_size=2"));
}

TEST(ParallelPlan, RefusesBadTextsByName) {
  auto errorOf = [](const char *text) {
    auto plan = ParallelPlan::parseText(text);
    return plan ? std::string("parsed") : plan.status().message();
  };
  EXPECT_EQ(errorOf("tp=0"),
            "parallel plan: tp=0: tp must be an exact positive integer.");
  EXPECT_EQ(errorOf("pp=-2"),
            "parallel plan: pp=-2: pp must be an exact positive integer.");
  EXPECT_EQ(errorOf("tp=2.0"),
            "parallel plan: tp=2.0: tp must be an exact positive integer.");
  EXPECT_EQ(errorOf("tp=99999999999999999999"),
            "parallel plan: tp=99999999999999999999 is too large: it does not fit "
            "in a 64-bit integer");
  EXPECT_EQ(errorOf("tpp=2"),
            "parallel plan: unknown field 'tpp'; a plan has the fields "
            "dp_replicate, dp_shard, tp, pp, cp, ep, etp, microbatches, "
            "gradient_accumulation_steps");
  EXPECT_EQ(errorOf("tp=2,tp=2"),
            "parallel plan: key 'tp' is given twice in 'tp=2,tp=2'");
  EXPECT_EQ(errorOf("tp=2,world_size=4"),
            "parallel plan: world_size=4 disagrees with the axes, which make "
            "2; correct it or leave it out");
  EXPECT_EQ(errorOf("dp_shard=3,ep=2"),
            "parallel plan: dp_shard=3,ep=2: expert parallelism must divide "
            "the data-parallel domain.");
  EXPECT_NE(errorOf("plan,tp=2").find("'plan' has no value"),
            std::string::npos);
  EXPECT_NE(errorOf("").find("empty"), std::string::npos);
}

TEST(ParallelPlan, ParsesAndRefusesJson) {
  auto errorOf = [](const char *text) {
    auto plan = ParallelPlan::parseJson(text, "p.json");
    return plan ? std::string("parsed") : plan.status().message();
  };
  ParallelPlan plan;
  plan.dpReplicate = 3;
  plan.dpShard = 2;
  plan.etp = 5;
  plan.gradientAccumulationSteps = 7;
  EXPECT_EQ(*ParallelPlan::parseJson(plan.asJson(), "x"), plan);
  EXPECT_EQ(errorOf("{}"), "parsed");
  EXPECT_EQ(errorOf(R"({"tp": 2, "world_size": 2, "data_parallel_size": 1})"),
            "parsed");
  EXPECT_EQ(errorOf(R"({"tp": 2, "data_parallel_size": 2})"),
            "p.json: data_parallel_size=2 disagrees with the axes, which make "
            "1; correct it or leave it out");
  EXPECT_EQ(errorOf(R"({"tp": 2, "tp": 2})"),
            "p.json: key 'tp' is given twice in one JSON object");
  EXPECT_NE(errorOf(R"({"Tp": 2})").find("unknown field 'Tp'"),
            std::string::npos);
  EXPECT_EQ(errorOf(R"({"tp": 2.0})"),
            "p.json: tp=2.0: tp must be an exact positive integer.");
  EXPECT_EQ(errorOf(R"({"tp": 18446744073709551615})"),
            "p.json: tp=18446744073709551615: tp must be an exact positive "
            "integer.");
  EXPECT_NE(errorOf("[2]").find("not array"), std::string::npos);
  EXPECT_NE(errorOf("{").find("not valid JSON"), std::string::npos);
}

TEST(ParallelPlan, LoadsATextAnObjectOrAFile) {
  std::string path =
      testing::TempDir() + "plan-" + std::to_string(getpid()) + "=1.json";
  std::ofstream(path) << R"({"dp_shard": 4})";
  auto fromFile = ParallelPlan::load(path); // '=' in a path is no field
  ASSERT_TRUE(fromFile) << fromFile.status().message();
  EXPECT_EQ(fromFile->dpShard, 4);
  std::remove(path.c_str());
  EXPECT_EQ(ParallelPlan::load("tp=2")->tp, 2);
  EXPECT_EQ(ParallelPlan::load(" {\"tp\": 3}")->tp, 3);
  auto missing = ParallelPlan::load("no-such-plan.json");
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.status().message().find("'no-such-plan.json' is neither"),
            std::string::npos);
}

TEST(ParallelPlan, WorldSize) {
  ParallelPlan plan;
  plan.tp = 2;
  EXPECT_TRUE(plan.validateWorldSize(2));
  EXPECT_EQ(plan.validateWorldSize(0).message(),
            "actual world size must be an exact positive integer.");
}

TEST(Coordinates, GoldenTables) {
  Json tables = golden("attest_worker_coordinate.json")["tables"];
  EXPECT_EQ(tables.size(), 5u);
  for (const Json &table : tables) {
    ParallelPlan plan = planOf(table["args"]);
    int64_t rows = table["table"].size();
    EXPECT_EQ(rows, plan.worldSize());
    for (const Json &row : table["table"]) {
      auto worker =
          attestWorkerCoordinate(plan, row["world_size"], row["rank"]);
      ASSERT_TRUE(worker) << worker.status().message();
      Json coordinate = Json::object();
      for (size_t i = 0; i < numMeshAxes; ++i)
        coordinate[std::string(toString(allParallelAxes[i]))] =
            worker->along(allParallelAxes[i]);
      EXPECT_EQ(coordinate.dump(), row["coordinate"].dump());
      EXPECT_EQ(worker->rank, row["rank"]);
      EXPECT_EQ(rankOf(plan, worker->coordinate), row["rank"]);
    }
  }
}

TEST(Coordinates, GoldenErrors) {
  Json errors = golden("attest_worker_coordinate.json")["errors"];
  int tried = 0, ofPythonTypes = 0;
  for (const Json &row : errors) {
    auto isInteger = [&](const char *key) {
      std::string text = row.value(key, std::string("x"));
      return text.find_first_not_of("-0123456789") == std::string::npos;
    };
    if (!row["plan"].is_object() || !isInteger("actual_world_size") ||
        !isInteger("rank")) {
      ++ofPythonTypes;
      continue;
    }
    ++tried;
    auto worker = attestWorkerCoordinate(
        planOf(row["plan"]),
        std::stoll(row["actual_world_size"].get<std::string>()),
        std::stoll(row["rank"].get<std::string>()));
    ASSERT_FALSE(worker);
    EXPECT_EQ(worker.status().message(), row["message"]);
  }
  EXPECT_EQ(tried, 3);
  EXPECT_EQ(ofPythonTypes, 4);
}

TEST(Coordinates, DataParallelRank) {
  ParallelPlan plan;
  plan.dpReplicate = 2;
  plan.dpShard = 3;
  plan.tp = 2;
  for (int64_t rank = 0; rank < plan.worldSize(); ++rank)
    EXPECT_EQ(dataParallelRank(plan, *attestWorkerCoordinate(plan, 12, rank)),
              rank / 2);
}

static BackendCapabilities capabilitiesOf(const Json &fields) {
  BackendCapabilities result;
  result.name = fields["name"];
  result.precisions.clear();
  for (const Json &axis : fields["axes"])
    result.axes.insert(*parseParallelAxis(axis.get<std::string>()));
  for (const Json &precision : fields["precisions"])
    result.precisions.insert(precision.get<std::string>());
  for (const Json &set : fields["incompatible_axis_sets"]) {
    std::set<ParallelAxis> axes;
    for (const Json &axis : set)
      axes.insert(*parseParallelAxis(axis.get<std::string>()));
    result.incompatibleAxisSets.push_back(axes);
  }
  return result;
}

TEST(BackendCapabilities, GoldenCases) {
  Json file = golden("backend_capabilities.json");
  EXPECT_EQ(file["cases"].size(), 96u);
  for (const Json &row : file["cases"]) {
    BackendCapabilities capabilities = capabilitiesOf(
        row.contains("backend") ? file[row["backend"].get<std::string>()]
                                : row["capabilities"]);
    Status status = capabilities.validate(planOf(row["plan"]),
                                          row["precision"].get<std::string>());
    EXPECT_EQ(status.ok(), row.contains("returns")) << row.dump();
    EXPECT_EQ(status.message(), row.value("message", std::string()));
  }
}

TEST(BackendCapabilities, Defaults) {
  BackendCapabilities capabilities;
  capabilities.name = "none";
  EXPECT_TRUE(capabilities.validate(ParallelPlan()));
  EXPECT_TRUE(capabilities.validate(ParallelPlan(), "bf16"));
  EXPECT_FALSE(capabilities.validate(ParallelPlan(), "fp64"));
}

TEST(Names, EveryNameReadsBack) {
  for (ParallelAxis axis : allParallelAxes)
    EXPECT_EQ(*parseParallelAxis(toString(axis)), axis);
  for (int i = 0; i < 7; ++i)
    EXPECT_EQ(*parsePayloadKind(toString(PayloadKind(i))), PayloadKind(i));
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(*parseCollectiveKind(toString(CollectiveKind(i))),
              CollectiveKind(i));
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(*parseStateLayout(toString(StateLayout(i))), StateLayout(i));
  EXPECT_EQ(toString(PayloadKind::SufficientStatistic), "sufficient_statistic");
  EXPECT_EQ(toString(CollectiveKind::P2p), "p2p");
  EXPECT_EQ(toString(StateLayout::ExpertLocal), "expert_local");
  auto axis = parseParallelAxis("TP");
  ASSERT_FALSE(axis);
  EXPECT_EQ(axis.status().message(),
            "'TP' is not a parallel axis; expected one of dp_replicate, "
            "dp_shard, tp, pp, cp, ep, etp");
}
