package rdma

import (
	"net"
	"testing"

	"golang.org/x/net/nettest"

	"github.com/pureverbs/pureverbs/rdma/internal/link"
)

func TestRXE_NetConn(t *testing.T) {
	needLogic(t)
	for name, opt := range map[string]*EngineOptions{"large blocks": nil, "small blocks": {Block: link.DefaultBlock}} {
		t.Run(name, func(t *testing.T) {
			server, client := newEngines(t, opt)
			nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
				a, b := streams(t, server, client)
				return a, b, func() {
					_ = a.Close()
					_ = b.Close()
				}, nil
			})
		})
	}
}
