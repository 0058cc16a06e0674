package session

import (
	"testing"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// TestUnannounced: each queue pair that rdma_cm connected has to be one that the peer announced, in any order.
func TestUnannounced(t *testing.T) {
	announced := []wire.Dest{{QPN: 7}, {QPN: 8}, {QPN: 9}}
	for _, tc := range []struct {
		numbers []uint32
		want    int
	}{
		{[]uint32{7, 8, 9}, -1}, {[]uint32{9, 7, 8}, -1}, {[]uint32{7, 8, 10}, 2}, {[]uint32{1, 7, 8}, 0},
		{[]uint32{7, 7, 8}, 1},
	} {
		if got := unannounced(tc.numbers, announced); got != tc.want {
			t.Errorf("%v: %d, want %d", tc.numbers, got, tc.want)
		}
	}
}
