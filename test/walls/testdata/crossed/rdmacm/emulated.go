package rdmacm

import _ "github.com/pureverbs/pureverbs/emu/internal/hca"
