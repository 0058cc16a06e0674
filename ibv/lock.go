package ibv

import "github.com/pureverbs/pureverbs/internal/spin"

// lock guards a queue. An object that one goroutine at a time uses has it turned off.
type lock = spin.Lock
