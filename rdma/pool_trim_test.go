package rdma

import (
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/rdma/internal/inmem"
	"github.com/pureverbs/pureverbs/rdma/internal/nic"
)

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
	small, err := e.Pool().Get(1)
	ok(t, err)
	m := &slowMemory{begun: make(chan struct{}), may: make(chan struct{})}
	small.get().Wrap(func(mr nic.Memory) nic.Memory {
		m.Memory = mr
		return m
	})
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
