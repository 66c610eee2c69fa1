// RUN: mixle-opt %s -codegen-lower-kernels | FileCheck %s

exec.program @program attributes {config = {}} {
  // Rows and columns are one loop over 16 lanes at a time; 3 x 16 columns leave no
  // rest. In f32 an elementary function goes through f64.
  // CHECK-LABEL: llvm.func @scaled
  // CHECK: %[[X:.*]] = llvm.load %{{.*}} : !llvm.ptr -> !llvm.ptr
  // CHECK: llvm.mul
  // CHECK: llvm.br ^[[HEADER:bb[0-9]+]](
  // CHECK: ^[[HEADER]](%{{.*}}: i64):
  // CHECK: llvm.cond_br
  // CHECK: llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr -> vector<16xf32>
  // CHECK: llvm.fpext %{{.*}} : vector<16xf32> to vector<16xf64>
  // CHECK: llvm.intr.fma
  // CHECK: llvm.fptrunc %{{.*}} : vector<16xf64> to vector<16xf32>
  // CHECK: llvm.store %{{.*}} {alignment = 4 : i64} : vector<16xf32>, !llvm.ptr
  // CHECK-NOT: llvm.cond_br
  // CHECK-NOT: llvm.intr.masked
  // CHECK: llvm.return
  exec.kernel @scaled(%x: tensor<?x3x16xf32>) -> tensor<?x3x16xf32> {
    %0 = mixle.exp %x : tensor<?x3x16xf32>
    exec.yield %0 : tensor<?x3x16xf32>
  }

  // A bias per column keeps rows and columns apart. Of 20 columns 4 are left over.
  // CHECK-LABEL: llvm.func @bias
  // CHECK: llvm.cond_br
  // CHECK: llvm.cond_br
  // CHECK: llvm.fadd %{{.*}} : vector<16xf32>
  // CHECK: llvm.store
  // CHECK: llvm.cond_br
  // CHECK: llvm.intr.masked.load
  // CHECK: llvm.intr.masked.load
  // CHECK: llvm.fadd %{{.*}} : vector<16xf32>
  // CHECK: llvm.intr.masked.store
  // CHECK-NOT: llvm.cond_br
  exec.kernel @bias(%x: tensor<?x20xf32>, %b: tensor<20xf32>) -> tensor<?x20xf32> {
    %0 = mixle.broadcast %b like %x dims = [1] : tensor<20xf32>, tensor<?x20xf32> -> tensor<?x20xf32>
    %1 = mixle.add %x, %0 : tensor<?x20xf32>
    exec.yield %1 : tensor<?x20xf32>
  }

  // 16 lanes, halved: l and l + 8 first. Lanes without an element in the last
  // iteration keep their sums.
  // CHECK-LABEL: llvm.func @sum
  // CHECK: llvm.fadd %{{.*}} : vector<16xf64>
  // CHECK: llvm.intr.masked.load
  // CHECK: %[[NEXT:.*]] = llvm.fadd %[[SUM:.*]], %{{.*}} : vector<16xf64>
  // CHECK: llvm.select %{{.*}}, %[[NEXT]], %[[SUM]] : vector<16xi1>, vector<16xf64>
  // CHECK: llvm.shufflevector %{{.*}} [0, 1, 2, 3, 4, 5, 6, 7] : vector<16xf64>
  // CHECK: llvm.shufflevector %{{.*}} [8, 9, 10, 11, 12, 13, 14, 15] : vector<16xf64>
  // CHECK: llvm.fadd %{{.*}} : vector<8xf64>
  // CHECK: llvm.fadd %{{.*}} : vector<4xf64>
  // CHECK: llvm.fadd %{{.*}} : vector<2xf64>
  // CHECK: llvm.fadd %{{.*}} : vector<1xf64>
  // CHECK: llvm.store %{{.*}} : f64, !llvm.ptr
  exec.kernel @sum(%x: tensor<?x37xf64>) -> tensor<?xf64> {
    %0 = mixle.reduce "sum" %x dims = [1] : tensor<?x37xf64> -> tensor<?xf64>
    exec.yield %0 : tensor<?xf64>
  }

  // Equal kernels are compiled once.
  // CHECK: llvm.mlir.alias external @same
  // CHECK-NEXT: llvm.mlir.addressof @sum
  exec.kernel @same(%y: tensor<?x37xf64>) -> tensor<?xf64> {
    %0 = mixle.reduce "sum" %y dims = [1] : tensor<?x37xf64> -> tensor<?xf64>
    exec.yield %0 : tensor<?xf64>
  }
}
