package spin

const sysMembarrier = 324
