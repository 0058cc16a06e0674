package libibverbs

import "github.com/pureverbs/pureverbs/internal/control"

var _ control.Verbs = Lib{}
