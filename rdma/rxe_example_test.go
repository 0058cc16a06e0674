package rdma

import (
	"context"
	"net"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// Example is an example, and what it returns for "words".
type Example struct {
	Name string
	Run  func(ctx context.Context, addr, text string) (string, error)
	Want string
}

// Examples are set by package rdma_test, whose own tests run last: when TestRXE_ZZRemoval has taken the devices away.
var Examples []Example

// TestRXE_Examples runs the package's examples.
func TestRXE_Examples(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	for _, e := range Examples {
		t.Run(e.Name, func(t *testing.T) {
			got, err := e.Run(timeout(t), net.JoinHostPort(rxe.IP[0], "0"), "words")
			if got != e.Want || err != nil {
				t.Errorf("%q, %v, want %q", got, err, e.Want)
			}
		})
	}
	if len(Examples) == 0 {
		t.Error("no examples")
	}
}
