package main

import (
	"fmt"

	"github.com/pureverbs/pureverbs/examples/program"
)

// Sizes of a ping that the stock rping accepts.
const (
	minSize = 23
	maxSize = 64<<10 - 1
)

// fill makes b ping n: its number, then the letters from 'A' to 'z' round and round, each ping one letter further on,
// and a zero byte.
func fill(b []byte, n int) {
	const first, letters = 'A', 'z' - 'A' + 1
	text := copy(b, fmt.Sprintf("rdma-ping-%d: ", n))
	for i := range b[text:] {
		b[text+i] = byte(first + (n+i)%letters)
	}
	b[len(b)-1] = 0
}

// verify checks every byte of ping n.
func verify(b []byte, n int) error {
	want := make([]byte, len(b))
	fill(want, n)
	return program.Compare(b, want)
}
