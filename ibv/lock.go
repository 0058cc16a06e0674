package ibv

import "sync"

// lock is a mutex that an object goes without when one goroutine at a time uses it.
type lock struct {
	mu  sync.Mutex
	off bool // set before first use, never changed
}

func (l *lock) Lock() {
	if !l.off {
		l.mu.Lock()
	}
}

func (l *lock) Unlock() {
	if !l.off {
		l.mu.Unlock()
	}
}

// mutex is what others have to lock; nil for nothing.
func (l *lock) mutex() *sync.Mutex {
	if l.off {
		return nil
	}
	return &l.mu
}
