package rdmacm

import (
	"errors"

	"github.com/pureverbs/pureverbs/internal/control"
)

func native(control.Verbs) (control.CM, error) { return nil, errors.New("not linked yet") }
