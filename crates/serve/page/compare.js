export const title = "Compare"; export function open() { return {}; }
