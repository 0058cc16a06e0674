package rdma

import (
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/inmem"
	"github.com/pureverbs/pureverbs/rdma/internal/nic"
)

// slowAdapter registers a slowMemory.
type slowAdapter struct {
	nic.Adapter
	m *slowMemory
}

func (a slowAdapter) Alloc(n int, access ibv.AccessFlags, opt *ibv.MemOptions) (_ nic.Memory, err error) {
	a.m.Memory, err = a.Adapter.Alloc(n, access, opt)
	return a.m, err
}

// slowMemory is closed only when it may be.
type slowMemory struct {
	nic.Memory
	begun, may chan struct{}
}

func (m *slowMemory) Close() error {
	close(m.begun)
	<-m.may
	return m.Memory.Close()
}

// TestPool_GetWhileTrimming asks for memory that another goroutine is about to free. Get waits for it.
func TestPool_GetWhileTrimming(t *testing.T) {
	e, err := newMemoryEngine(&EngineOptions{}, inmem.New())
	ok(t, err)
	defer func() { ok(t, e.Close()) }()
	m := &slowMemory{begun: make(chan struct{}), may: make(chan struct{})}
	adapter := e.e.NIC
	e.e.NIC = slowAdapter{adapter, m}
	small, err := e.Pool().Get(1)
	ok(t, err)
	e.e.NIC = adapter
	small.Release()
	trimmed := make(chan bool)
	go func() { trimmed <- e.e.Trim(false) }()
	<-m.begun
	time.AfterFunc(10*time.Millisecond, func() { close(m.may) })
	big, err := e.Pool().Get(int(e.e.Options.Memory - e.e.Budget.Used() + 1))
	ok(t, err)
	big.Release()
	if !<-trimmed {
		t.Error("nothing was trimmed")
	}
}
