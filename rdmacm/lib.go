package rdmacm

import (
	"sync"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/bind/librdmacm"
	"github.com/pureverbs/pureverbs/internal/friend"
)

// library opens librdmacm once.
var library = sync.OnceValues(librdmacm.Open)

// verbs is what package ibv shows this module only.
var verbs = ibv.Internal.Show(friend.Mine)
