package rdmacm

import _ "github.com/pureverbs/pureverbs/internal/emu/hca"
