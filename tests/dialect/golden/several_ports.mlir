"builtin.module"() ({
  "spike.network"() ({
    %0 = "spike.input"() {name = "x"} : () -> !spike.stream<array<i64: 5>, f32>
    %1 = "spike.scan"(%0) : (!spike.stream<array<i64: 5>, f32>) -> !spike.value<array<i64: 5>, f32>
    %2 = "spike.input"() {name = "y"} : () -> !spike.stream<array<i64: 3, 4>, f32>
    %3 = "spike.scan"(%2) : (!spike.stream<array<i64: 3, 4>, f32>) -> !spike.value<array<i64: 3, 4>, f32>
    %4 = "spike.dense"(%1) {weight = dense_resource<a0> : tensor<12x5xf64>} : (!spike.value<array<i64: 5>, f32>) -> !spike.value<array<i64: 12>, f32>
    %5 = "spike.reshape"(%4) : (!spike.value<array<i64: 12>, f32>) -> !spike.value<array<i64: 3, 4>, f32>
    %6 = "spike.current"(%5) {index = 0 : i64, provenance = {nodes = ["n", "m"]}, bias = dense<[[0.52734375, 0.37890625, 0.39453125, 8.593750e-02], [0.5615234375, -0.1611328125, 0.271484375, 0.4111328125], [0.5322265625, 0.2197265625, 0.0732421875, 0.009765625]]> : tensor<3x4xf64>} : (!spike.value<array<i64: 3, 4>, f32>) -> !spike.value<array<i64: 3, 4>, f32>
    %7 = "spike.delay"(%3) {steps = dense<[[0, 1, 2, 0], [1, 2, 0, 1], [2, 0, 1, 2]]> : tensor<3x4xi64>} : (!spike.value<array<i64: 3, 4>, f32>) -> !spike.value<array<i64: 3, 4>, f32>
    %8 = "spike.scale"(%7) {scale = dense<[[0.119140625, 0.1806640625, 0.408203125, 0.5751953125], [-0.22265625, 0.619140625, 0.2255859375, 0.0556640625], [0.36328125, 0.2646484375, -0.044921875, 0.0205078125]]> : tensor<3x4xf64>} : (!spike.value<array<i64: 3, 4>, f32>) -> !spike.value<array<i64: 3, 4>, f32>
    %9 = "spike.current"(%8) {index = 1 : i64} : (!spike.value<array<i64: 3, 4>, f32>) -> !spike.value<array<i64: 3, 4>, f32>
    %10, %11, %12, %13 = "spike.neuron"(%6, %9) {kind = "LIF", membrane = #spike.membrane<dense<8.750000e-01> : tensor<f64>, dense<1.250000e-01> : tensor<f64>, dense<0.000000e+00> : tensor<f64>, dense<0.000000e+00> : tensor<f64>>, synapse = #spike.synapse<dense<0.000000e+00> : tensor<f64>, dense<1.000000e+00> : tensor<f64>, dense<0.000000e+00> : tensor<f64>>, firing = #spike.firing<dense<6.250000e-02> : tensor<f64>, ">=", 1 : i64, dense<0> : tensor<i64>>, reset = #spike.reset<"none", dense<0.000000e+00> : tensor<f64>, dense<6.250000e-02> : tensor<f64>>, name = "a %22b%22%5C%0A%00%C3%A9%E6%BC%A2%2520", index = 0 : i64} : (!spike.value<array<i64: 3, 4>, f32>, !spike.value<array<i64: 3, 4>, f32>) -> (!spike.value<array<i64: 3, 4>, i1>, !spike.value<array<i64: 3, 4>, f32>, !spike.value<array<i64: 3, 4>, f32>, !spike.value<array<i64: 3, 4>, f32>)
    %14 = "spike.reshape"(%10) : (!spike.value<array<i64: 3, 4>, i1>) -> !spike.value<array<i64: 12>, i1>
    %15 = "spike.dense"(%14) {weight = dense<[[0.4091796875, 0.287109375, 0.19921875, 0.0361328125, 0.44921875, 0.0888671875, 0.02734375, 0.576171875, -0.0361328125, -0.0712890625, 0.404296875, 0.3154296875]]> : tensor<1x12xf64>} : (!spike.value<array<i64: 12>, i1>) -> !spike.value<array<i64: 1>, f32>
    %16 = "spike.reshape"(%15) : (!spike.value<array<i64: 1>, f32>) -> !spike.value<array<i64>, f32>
    %17 = "spike.current"(%16) {index = 2 : i64} : (!spike.value<array<i64>, f32>) -> !spike.value<array<i64>, f32>
    %18 = "spike.past"() {steps = dense<1> : tensor<i64>} : () -> !spike.value<array<i64>, i1>
    %19 = "spike.identity"(%18) : (!spike.value<array<i64>, i1>) -> !spike.value<array<i64>, i1>
    %20 = "spike.current"(%19) {index = 3 : i64, provenance = {delay_nodes = ["d"]}, is_back} : (!spike.value<array<i64>, i1>) -> !spike.value<array<i64>, f32>
    %21, %22, %23, %24 = "spike.neuron"(%17, %20) {kind = "LIF", v_min = dense<-1.562500e-02> : tensor<f64>, membrane = #spike.membrane<dense<8.750000e-01> : tensor<f64>, dense<1.250000e-01> : tensor<f64>, dense<0.000000e+00> : tensor<f64>, dense<0.000000e+00> : tensor<f64>>, synapse = #spike.synapse<dense<0.000000e+00> : tensor<f64>, dense<1.000000e+00> : tensor<f64>, dense<0.000000e+00> : tensor<f64>>, firing = #spike.firing<dense<6.250000e-02> : tensor<f64>, ">", 1 : i64, dense<0> : tensor<i64>>, reset = #spike.reset<"to-value", dense<0.000000e+00> : tensor<f64>, dense<6.250000e-02> : tensor<f64>>, name = "b", index = 1 : i64} : (!spike.value<array<i64>, f32>, !spike.value<array<i64>, f32>) -> (!spike.value<array<i64>, i1>, !spike.value<array<i64>, f32>, !spike.value<array<i64>, f32>, !spike.value<array<i64>, f32>)
    %25 = "spike.identity"(%10) : (!spike.value<array<i64: 3, 4>, i1>) -> !spike.value<array<i64: 3, 4>, i1>
    %26 = "spike.current"(%25) {index = 4 : i64} : (!spike.value<array<i64: 3, 4>, i1>) -> !spike.value<array<i64: 3, 4>, f32>
    %27 = "spike.delay"(%3) {steps = dense<2> : tensor<i64>} : (!spike.value<array<i64: 3, 4>, f32>) -> !spike.value<array<i64: 3, 4>, f32>
    %28 = "spike.identity"(%27) : (!spike.value<array<i64: 3, 4>, f32>) -> !spike.value<array<i64: 3, 4>, f32>
    %29 = "spike.current"(%28) {index = 5 : i64} : (!spike.value<array<i64: 3, 4>, f32>) -> !spike.value<array<i64: 3, 4>, f32>
    %30 = "spike.output"(%26, %29) {name = "o"} : (!spike.value<array<i64: 3, 4>, f32>, !spike.value<array<i64: 3, 4>, f32>) -> !spike.value<array<i64: 3, 4>, f32>
    %31 = "spike.collect"(%30) : (!spike.value<array<i64: 3, 4>, f32>) -> !spike.stream<array<i64: 3, 4>, f32>
    "spike.result"(%31) {name = "o", variable = "s"} : (!spike.stream<array<i64: 3, 4>, f32>) -> ()
    %32 = "spike.identity"(%21) : (!spike.value<array<i64>, i1>) -> !spike.value<array<i64>, i1>
    %33 = "spike.current"(%32) {index = 6 : i64} : (!spike.value<array<i64>, i1>) -> !spike.value<array<i64>, f32>
    %34 = "spike.output"(%33) {name = "p"} : (!spike.value<array<i64>, f32>) -> !spike.value<array<i64>, f32>
    %35 = "spike.collect"(%34) : (!spike.value<array<i64>, f32>) -> !spike.stream<array<i64>, f32>
    "spike.result"(%35) {name = "p", variable = "s"} : (!spike.stream<array<i64>, f32>) -> ()
    %36 = "spike.output"() {name = "q"} : () -> !spike.value<array<i64: 2>, f32>
    %37 = "spike.collect"(%36) : (!spike.value<array<i64: 2>, f32>) -> !spike.stream<array<i64: 2>, f32>
    "spike.result"(%37) {name = "q", variable = "s"} : (!spike.stream<array<i64: 2>, f32>) -> ()
    "spike.connect"(%18, %21) : (!spike.value<array<i64>, i1>, !spike.value<array<i64>, i1>) -> ()
    "ub.unreachable"() : () -> ()
  }) {sym_name = "network", dt = 1.000000e-03 : f64, numbers = "float32", provenance = {assumed = ["one"], notes = ["two %22%0A"]}, timing = #spike.timing<"euler", "to-value", ">", "per-second">, chip} : () -> ()
}) : () -> ()

{-#
  dialect_resources: {
    builtin: {
      a0: "0x08000000000000000030E13F000000000000D53F000000000060CA3F0000000000009FBF0000000000007C3F000000000040D0BF000000000020CCBF0000000000C0D1BF000000000040BFBF000000000008E03F0000000000D0D53F000000000020E33F000000000060C93F000000000020D33F0000000000F0E43F0000000000D0DA3F0000000000C0D43F000000000060CE3F000000000030D03F0000000000D8E33F00000000000097BF000000000018E03F000000000020D73F0000000000A0D2BF000000000080B73F000000000068E13F0000000000C0CF3F0000000000B0D0BF000000000000DD3F0000000000D0DA3F000000000010E13F000000000040BFBF000000000060CABF000000000098E13F000000000060D1BF000000000020CE3F000000000080CBBF00000000000050BF0000000000A0C63F000000000080BE3F0000000000C0B93F000000000000D1BF000000000070D2BF000000000000C6BF000000000040D2BF000000000020D73F000000000020CC3F0000000000B0D53F000000000080A5BF0000000000B0D33F000000000000DD3F0000000000C0B43F000000000000C43F0000000000C8E53F000000000080DF3F000000000040E53F0000000000C0B33F000000000010D83F000000000050E43F0000000000E0D53F"
    }
  }
#-}
