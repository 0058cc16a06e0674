package rdmacm

import _ "github.com/pureverbs/pureverbs/ibv"
