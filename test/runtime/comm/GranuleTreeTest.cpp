//===- GranuleTreeTest.cpp - The tree against its definition --------------===//

#include "runtime/base/GranuleTree.h"
#include <gtest/gtest.h>
#include <string>

using namespace mixle::runtime;

namespace {

/// All nodes of the tree over [begin, end), by definition.
void collectNodes(int64_t begin, int64_t end, std::vector<Subtree> &nodes) {
  nodes.push_back({begin, end});
  int64_t n = end - begin;
  if (n == 1)
    return;
  int64_t left = 1;
  for (int64_t power = 1; power < n; power *= 2)
    left = power;
  collectNodes(begin, begin + left, nodes);
  collectNodes(begin + left, end, nodes);
}

/// "((0+1)+2)" by definition; "" when all granules outside [first, last) are
/// below.
std::string naiveText(int64_t begin, int64_t end, int64_t first, int64_t last) {
  if (end - begin == 1)
    return first <= begin && begin < last ? std::to_string(begin) : "";
  int64_t left = 1;
  for (int64_t power = 1; power < end - begin; power *= 2)
    left = power;
  std::string a = naiveText(begin, begin + left, first, last);
  std::string b = naiveText(begin + left, end, first, last);
  if (a.empty() || b.empty())
    return a + b;
  return "(" + a + "+" + b + ")";
}

TEST(GranuleTree, SplitsAtTheLargestPowerOfTwoBelow) {
  EXPECT_EQ(treeSplit(2), 1);
  EXPECT_EQ(treeSplit(3), 2);
  EXPECT_EQ(treeSplit(4), 2);
  EXPECT_EQ(treeSplit(5), 4);
  EXPECT_EQ(treeSplit(8), 4);
  EXPECT_EQ(treeSplit(9), 8);
  EXPECT_EQ(treeSplit(12), 8);
  EXPECT_EQ(treeDepth(1), 0);
  EXPECT_EQ(treeDepth(2), 1);
  EXPECT_EQ(treeDepth(3), 2);
  EXPECT_EQ(treeDepth(8), 3);
  EXPECT_EQ(treeDepth(9), 4);
}

/// For all cuts of up to 16 granules: exactly the nodes inside the range whose
/// parents are not, in order.
TEST(GranuleTree, MaximalSubtreesOfEveryRange) {
  for (int64_t granules = 1; granules <= 16; ++granules) {
    std::vector<Subtree> nodes;
    collectNodes(0, granules, nodes);
    for (int64_t begin = 0; begin <= granules; ++begin)
      for (int64_t end = begin; end <= granules; ++end) {
        std::vector<Subtree> expected;
        // A parent comes before its children, so whatever lies in an accepted
        // node is below it.
        for (const Subtree &node : nodes) {
          bool covered = false;
          for (const Subtree &larger : expected)
            covered |= larger.begin <= node.begin && node.end <= larger.end;
          if (!covered && begin <= node.begin && node.end <= end)
            expected.push_back(node);
        }
        std::vector<Subtree> found = maximalSubtrees(begin, end, granules);
        EXPECT_TRUE(found == expected)
            << granules << ": " << begin << ", " << end;
        int64_t covered = begin;
        for (const Subtree &node : found) {
          EXPECT_EQ(node.begin, covered);
          covered = node.end;
        }
        EXPECT_EQ(covered, end);
        EXPECT_LE(static_cast<int>(found.size()),
                  std::max(1, 2 * treeDepth(granules)));
      }
  }
}

TEST(GranuleTree, RangesAreCutToTheTree) {
  EXPECT_TRUE(maximalSubtrees(-3, 20, 6) == (std::vector<Subtree>{{0, 6}}));
  EXPECT_TRUE(maximalSubtrees(0, 3, 0).empty());
  EXPECT_TRUE(maximalSubtrees(7, 9, 6).empty());
}

/// Records additions as text, in slots as a kernel has them.
struct Recorder {
  std::vector<std::string> slots;
  int highest = -1;

  std::string &slot(int index) {
    highest = std::max(highest, index);
    if (index >= static_cast<int>(slots.size()))
      slots.resize(index + 1);
    return slots[index];
  }
  void add(int left, int right) {
    slot(left) = "(" + slot(left) + "+" + slot(right) + ")";
  }
};

TEST(GranuleTree, CombineAddsInTheTreesOrder) {
  for (int64_t granules = 1; granules <= 16; ++granules)
    for (int64_t first = 0; first <= granules; ++first)
      for (int64_t last = first; last <= granules; ++last) {
        Recorder recorder;
        bool any = combine(
            Subtree{0, granules}, 0,
            [&](Subtree node, int slot) {
              if (node.size() > 1)
                return TreeVisit::descend;
              if (node.begin < first || node.begin >= last)
                return TreeVisit::absent;
              recorder.slot(slot) = std::to_string(node.begin);
              return TreeVisit::ready;
            },
            [&](int left, int right) { recorder.add(left, right); });
        std::string expected = naiveText(0, granules, first, last);
        EXPECT_EQ(any, !expected.empty());
        EXPECT_EQ(any ? recorder.slot(0) : "", expected);
        EXPECT_LE(recorder.highest, treeDepth(granules));
      }
}

/// However two ranks cut the granules, adding up their maximal subtrees gives
/// what one rank gets.
TEST(GranuleTree, SubtreesOfEveryCutGiveTheWhole) {
  for (int64_t granules = 1; granules <= 16; ++granules)
    for (int64_t a = 0; a <= granules; ++a)
      for (int64_t b = a; b <= granules; ++b) {
        std::vector<std::pair<Subtree, std::string>> parts;
        for (auto range : {std::pair(int64_t(0), a), std::pair(a, b),
                           std::pair(b, granules)})
          for (Subtree node :
               maximalSubtrees(range.first, range.second, granules))
            parts.push_back(
                {node, naiveText(node.begin, node.end, 0, granules)});
        Recorder recorder;
        bool any = combine(
            Subtree{0, granules}, 0,
            [&](Subtree node, int slot) {
              for (auto &part : parts)
                if (part.first == node) {
                  recorder.slot(slot) = part.second;
                  return TreeVisit::ready;
                }
              return TreeVisit::descend;
            },
            [&](int left, int right) { recorder.add(left, right); });
        EXPECT_TRUE(any);
        EXPECT_EQ(recorder.slot(0), naiveText(0, granules, 0, granules));
      }
}

} // namespace
