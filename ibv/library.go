package ibv

import (
	"sync"
	"sync/atomic"

	"github.com/pureverbs/pureverbs/internal/bind/libibverbs"
)

// verbs is the opened libibverbs.
type verbs struct {
	libibverbs.Lib
	providers atomic.Bool // set once checkProviders found no fault
}

// library opens libibverbs once.
var library = sync.OnceValues(func() (*verbs, error) {
	lib, err := libibverbs.Open()
	if err != nil {
		return nil, err
	}
	return &verbs{Lib: lib}, nil
})
