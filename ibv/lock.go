package ibv

import "github.com/pureverbs/pureverbs/internal/spin"

// lock guards a queue. An object that one goroutine at a time uses goes without.
type lock = spin.Lock
