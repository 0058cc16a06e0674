package rdma_test

import (
	"context"
	"net"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_Examples runs the package's examples.
func TestRXE_Examples(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	ctx, cancel := context.WithTimeout(context.Background(), testutil.Patience)
	defer cancel()
	for _, e := range []struct {
		name string
		run  func(ctx context.Context, addr, text string) (string, error)
		want string
	}{
		{"messages", echo, "words"},
		{"calls", call, "you said words"},
		{"HTTP", fetch, "words"},
		{"leases", lend, "words"},
		{"datagrams", datagram, "words"},
	} {
		t.Run(e.name, func(t *testing.T) {
			if got, err := e.run(ctx, net.JoinHostPort(rxe.IP[0], "0"), "words"); got != e.want || err != nil {
				t.Errorf("%q, %v, want %q", got, err, e.want)
			}
		})
	}
}
