package rdmacm

import (
	"sync"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/bind/librdmacm"
	"github.com/pureverbs/pureverbs/internal/friend"
)

// library opens librdmacm once.
var library = sync.OnceValues(librdmacm.Open)

// verbs is the part of package ibv that is internal to this module.
var verbs = ibv.Internal.Show(friend.Mine)
