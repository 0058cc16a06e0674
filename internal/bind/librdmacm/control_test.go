package librdmacm

import "github.com/pureverbs/pureverbs/internal/control"

var _ control.CM = Lib{}
