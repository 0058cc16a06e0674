package rdmacm

import (
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/kernel/ucma"
)

func native(v control.Verbs) (control.CM, error) { return ucma.New(v), nil }
