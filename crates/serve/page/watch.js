export const title = "Watch"; export function open() { return {}; }
