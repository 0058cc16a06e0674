package ibv

import _ "unsafe"
