package rdma_test

import "github.com/pureverbs/pureverbs/rdma"

func init() {
	rdma.Examples = []rdma.Example{
		{"messages", echo, "words"},
		{"calls", call, "you said words"},
		{"HTTP", fetch, "words"},
		{"leases", lend, "words"},
		{"datagrams", datagram, "words"},
	}
}
