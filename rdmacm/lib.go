package rdmacm

import (
	"sync"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/friend"
)

// library opens the control path of rdma_cm once.
var library = sync.OnceValues(func() (control.CM, error) {
	v, err := verbs.CMControl()
	switch {
	case err != nil:
		return nil, err
	case v != nil:
		return native(v)
	}
	return openLibrary()
})

// verbs is the part of package ibv that is internal to this module.
var verbs = ibv.Internal.Show(friend.Mine)
