// Package litmus checks short programs of several processors and a device against the memory models of amd64 and
// Armv8. It is for tests. Disassemble and Paths read the programs from a binary, so that a barrier which is moved or
// missing changes the outcomes.
//
// The model: memory is one array, because both architectures are multi-copy atomic. Each thread performs its operations
// in any order that its model permits. A load returns the value of an earlier store of its own thread to the same place
// if that store has not been performed. A device is a thread in program order. All interleavings are visited.
//
// It does not model accesses of different sizes to one place, PCIe's relaxed ordering, or loads with a guessed address.
// What it does not model never happens in it. So "never" is a weaker statement than "seen".
package litmus
