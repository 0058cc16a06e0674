// Package rules tests the rules that more than one of the packages ibv, rdmacm, rdma and rsocket must keep. Each rule
// is a function, which reports what an error lacks, and runs through every call that can break it. A new rule of one
// package has its row here if another one can break it as well.
package rules
