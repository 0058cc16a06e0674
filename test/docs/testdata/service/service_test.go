package service

import (
	"testing"

	"github.com/pureverbs/pureverbs/emu/emutest"
	"github.com/pureverbs/pureverbs/rdma"
)

func TestMain(m *testing.M) { emutest.Run(m, emutest.Strict()) }

func TestListen(t *testing.T) {
	emutest.Need(t)        // skips the test, with the reason, where adapters cannot be emulated
	defer rdma.CloseIdle() // last: strict mode reports what is left as a leak
	l, err := rdma.Listen(t.Context(), "10.88.0.1:7471", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := rdma.Dial(t.Context(), l.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
}
