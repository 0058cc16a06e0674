// Package fault decides when an injected fault happens. A [Spec] describes what goes wrong, for whom and how often, as
// text:
//
//	cqe-lost:qp=0x45,after=100     the 101st completion of that QP is never written
//	rnr:prob=0.01,seed=7           one send in a hundred finds no receive, the same ones in each run
//	enomem:cmd=REG_MR,after=3      the fourth registration fails
//
// A [Set] holds the specs that are active and is asked at each operation. It does not know how a fault is carried out.
package fault
