package ibv

import _ "github.com/pureverbs/pureverbs/rdmacm"
